<?xml version="1.0" encoding="UTF-8"?>
<!-- Turns Debian's iso-codes table of languages into a page: filtered, grouped, sorted and counted. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:output method="html" encoding="UTF-8" indent="yes"/>
  <xsl:param name="letter" select="'a'"/>
  <xsl:key name="by-short" match="iso_639_entry" use="string-length(@iso_639_1_code) &gt; 0"/>

  <xsl:template match="/iso_639_entries">
    <html>
      <body>
        <h1>Languages: <xsl:value-of select="count(iso_639_entry)"/></h1>
        <xsl:for-each select="iso_639_entry[generate-id() = generate-id(key('by-short', string-length(@iso_639_1_code) &gt; 0)[1])]">
          <xsl:sort select="string-length(@iso_639_1_code) &gt; 0"/>
          <h2>With a short code: <xsl:value-of select="string-length(@iso_639_1_code) &gt; 0"/>,
            <xsl:value-of select="count(key('by-short', string-length(@iso_639_1_code) &gt; 0))"/></h2>
        </xsl:for-each>
        <table>
          <xsl:apply-templates select="iso_639_entry[starts-with(@iso_639_2T_code, $letter)]">
            <xsl:sort select="@name"/>
          </xsl:apply-templates>
        </table>
      </body>
    </html>
  </xsl:template>

  <xsl:template match="iso_639_entry">
    <tr>
      <td><xsl:number value="position()"/></td>
      <td><xsl:value-of select="@iso_639_2T_code"/></td>
      <td><xsl:value-of select="translate(@name, 'aeiou', 'AEIOU')"/></td>
      <td>
        <xsl:choose>
          <xsl:when test="@iso_639_2T_code = @iso_639_2B_code">one code</xsl:when>
          <xsl:when test="@iso_639_1_code = 'de' or @iso_639_1_code = 'fr'">near</xsl:when>
          <xsl:otherwise>also: <xsl:value-of select="@iso_639_2B_code"/></xsl:otherwise>
        </xsl:choose>
      </td>
      <td>
        <xsl:call-template name="spell">
          <xsl:with-param name="text" select="@iso_639_2T_code"/>
        </xsl:call-template>
      </td>
    </tr>
  </xsl:template>

  <xsl:template name="spell">
    <xsl:param name="text"/>
    <xsl:if test="string-length($text) &gt; 0">
      <xsl:value-of select="concat(substring($text, 1, 1), '.')"/>
      <xsl:call-template name="spell">
        <xsl:with-param name="text" select="substring($text, 2)"/>
      </xsl:call-template>
    </xsl:if>
  </xsl:template>
</xsl:stylesheet>
